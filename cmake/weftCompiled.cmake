# SPDX-License-Identifier: BSL-1.0
# weft::compiled: what files with WEFT_SEPARATE_COMPILATION defined leave out, compiled once for all programs of a project that link
# it. The library is built in the project that uses it, by its compiler with its flags, when a program asks for it.
#
# Unoptimised, that half plans and computes some 80 times slower. So it is optimised in builds without optimisation too, and
# weft::weft links it there: a developer debugs the program, not Weft. These builds are Debug and, unless CMAKE_CXX_FLAGS sets
# a level, those without a build type.
option(WEFT_OPTIMIZED_IN_DEBUG "Link unoptimized programs with an optimized core of Weft" ON)

set(weft_is_unoptimised "$<CONFIG:Debug>")
if(NOT CMAKE_CXX_FLAGS MATCHES "(^| )-O" AND NOT CMAKE_CXX_FLAGS_NONE MATCHES "(^| )-O")
  set(weft_is_unoptimised "$<OR:$<CONFIG:Debug,None>,$<NOT:$<BOOL:$<CONFIG>>>>")
  get_property(weft_has_configurations GLOBAL PROPERTY GENERATOR_IS_MULTI_CONFIG)
  get_property(weft_has_warned GLOBAL PROPERTY WEFT_HAS_WARNED_OF_BUILD_TYPE)
  if(NOT weft_has_configurations AND NOT weft_has_warned AND NOT weft_FIND_QUIETLY AND CMAKE_BUILD_TYPE MATCHES "^(None)?$")
    set_property(GLOBAL PROPERTY WEFT_HAS_WARNED_OF_BUILD_TYPE TRUE)
    message(STATUS "Weft: CMAKE_BUILD_TYPE is not set, so this project is compiled without optimization and runs about "
                   "ten times slower; configure it with -DCMAKE_BUILD_TYPE=Release")
  endif()
  unset(weft_has_configurations)
  unset(weft_has_warned)
endif()

# weft_compile_once(NAME SOURCE...): the library weft_NAME, and weft::NAME, which links it. weft::NAME is an imported target, so a
# project can export a library that links it: whoever uses that library finds Weft and compiles its own copy. The library hides
# all symbols but those that WEFT_API marks, so a shared library that links it exports no others.
function(weft_compile_once name)
  add_library(weft_${name} STATIC EXCLUDE_FROM_ALL ${ARGN})
  set_target_properties(weft_${name} PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden
                                                VISIBILITY_INLINES_HIDDEN ON)
  add_library(weft::${name} INTERFACE IMPORTED GLOBAL)
  set_target_properties(weft::${name} PROPERTIES INTERFACE_LINK_LIBRARIES weft_${name})
endfunction()

if(NOT TARGET weft::compiled)
  weft_compile_once(compiled ${CMAKE_CURRENT_LIST_DIR}/weft.cpp ${CMAKE_CURRENT_LIST_DIR}/weft_recurrent.cpp)
  target_link_libraries(weft_compiled PUBLIC weft::headers)
  target_compile_definitions(weft_compiled PUBLIC WEFT_SEPARATE_COMPILATION WEFT_SEPARATE_RECURRENT)
  if(WEFT_OPTIMIZED_IN_DEBUG)
    target_compile_options(weft_compiled PRIVATE $<${weft_is_unoptimised}:-O2>)
  endif()
endif()

# weft::compiled_distributed: the same of clusters over TCP, what files with WEFT_SEPARATE_DISTRIBUTED defined leave out.
# An installed weft::distributed whose libraries are absent here (weftConfig.cmake) cannot be linked.
if(TARGET weft::distributed AND NOT TARGET weft::compiled_distributed
   AND (weft_distributed_FOUND OR NOT DEFINED weft_distributed_FOUND))
  weft_compile_once(compiled_distributed ${CMAKE_CURRENT_LIST_DIR}/weft_distributed.cpp)
  target_link_libraries(weft_compiled_distributed PUBLIC weft::compiled weft::distributed)
  target_compile_definitions(weft_compiled_distributed PUBLIC WEFT_SEPARATE_DISTRIBUTED)
  if(WEFT_OPTIMIZED_IN_DEBUG)
    target_compile_options(weft_compiled_distributed PRIVATE $<${weft_is_unoptimised}:-O2>)
  endif()
endif()

if(WEFT_OPTIMIZED_IN_DEBUG)
  # An imported target is of the folder that has found the package; one of this build must not export what it links here.
  get_target_property(weft_core weft::weft ALIASED_TARGET)
  if(NOT weft_core)
    set(weft_core weft::weft)
  endif()
  get_target_property(weft_links ${weft_core} INTERFACE_LINK_LIBRARIES)
  if(NOT weft_links MATCHES weft_compiled)
    set_property(TARGET ${weft_core} APPEND PROPERTY INTERFACE_LINK_LIBRARIES "$<BUILD_INTERFACE:$<${weft_is_unoptimised}:weft_compiled>>")
  endif()
  unset(weft_core)
  unset(weft_links)
endif()
unset(weft_is_unoptimised)
