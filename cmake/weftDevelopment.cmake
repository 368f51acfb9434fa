# What Weft's own tests, examples and benchmarks are built with; nothing here reaches a user of the library.

if(NOT CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(WEFT_CCACHE ccache)
  if(WEFT_CCACHE)
    set(CMAKE_CXX_COMPILER_LAUNCHER ${WEFT_CCACHE})
  endif()
endif()

set(CMAKE_CXX_EXTENSIONS OFF)

# Warnings, and the parts of Weft that a program of ours uses.
function(weft_program target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wconversion)
  target_link_libraries(${target} PRIVATE weft::weft ${ARGN})
endfunction()
