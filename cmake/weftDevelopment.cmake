# SPDX-License-Identifier: BSL-1.0
# What Weft's own tests, examples and benchmarks are built with; nothing here reaches a user of the library.

if(NOT CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(WEFT_CCACHE ccache)
  if(WEFT_CCACHE)
    set(CMAKE_CXX_COMPILER_LAUNCHER ${WEFT_CCACHE})
  endif()
endif()

if(NOT CMAKE_CUDA_COMPILER_LAUNCHER AND CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()

set(CMAKE_CXX_EXTENSIONS OFF)

set(weft_warnings -Wall -Wextra -Wpedantic -Wconversion)

# Warnings, and the parts of Weft that a program of ours uses.
function(weft_program target)
  # nvcc's own warnings and those of its host compiler; its preprocessed code cannot pass -Wpedantic.
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${weft_warnings}>
                                           $<$<COMPILE_LANG_AND_ID:CUDA,Clang>:${weft_warnings}>
                                           $<$<COMPILE_LANG_AND_ID:CUDA,NVIDIA>:-Xcompiler=-Wall,-Wextra>)
  target_link_libraries(${target} PRIVATE weft::weft ${ARGN})
endfunction()

# Tests are many and small: what they have in common is compiled once, unless the preset says otherwise, so that both
# ways are tested.
option(WEFT_TESTS_COMPILED "Link the tests with weft::compiled" ON)
if(WEFT_TESTS_COMPILED)
  set(weft_for_tests weft::compiled)
else()
  set(weft_for_tests weft::weft)
endif()

# weft_cuda_program(TARGET SOURCE [PART...]): the program SOURCE, which is C++ for any device, compiled for GPUs.
# Extra lines for the top of the file are taken from the variable `weft_cuda_prologue`.
function(weft_cuda_program target source)
  get_filename_component(source ${source} ABSOLUTE)
  get_filename_component(folder ${source} DIRECTORY)
  get_filename_component(name ${source} NAME)
  set(file ${CMAKE_CURRENT_BINARY_DIR}/${target}.cu)
  # No folder of this machine is in the file: a clone elsewhere need not compile it again.
  file(CONFIGURE OUTPUT ${file} CONTENT "#include <weft/cuda.hpp>\n@weft_cuda_prologue@#include <@name@>\n" @ONLY)
  add_executable(${target} ${file})
  # Linked as C++: of a program that nvcc links CMake takes the toolkit's folder for one that the loader searches anyway.
  set_target_properties(${target} PROPERTIES CUDA_RUNTIME_LIBRARY Shared LINKER_LANGUAGE CXX)
  target_include_directories(${target} BEFORE PRIVATE ${folder})
  weft_program(${target} weft::cuda ${ARGN})
  add_dependencies(cuda_programs ${target})
endfunction()
if(WEFT_BUILD_CUDA_PROGRAMS)
  add_custom_target(cuda_programs)
endif()

# Programs that run under mpirun are made for each MPI library that is here, whichever one weft::mpi is:
# PkgConfig::WEFT_<library>, started by WEFT_MPIEXEC_<library>.
set(weft_mpi_libraries)
if(WEFT_HAS_MPI)
  find_package(PkgConfig QUIET)
  foreach(library IN ITEMS openmpi mpich)
    find_program(WEFT_MPIEXEC_${library} mpiexec.${library})
    set(module_openmpi ompi-c)
    set(module_mpich mpich)
    if(PkgConfig_FOUND AND WEFT_MPIEXEC_${library})
      pkg_check_modules(WEFT_${library} QUIET IMPORTED_TARGET ${module_${library}})
    endif()
    if(TARGET PkgConfig::WEFT_${library})
      list(APPEND weft_mpi_libraries ${library})
    endif()
  endforeach()
endif()
