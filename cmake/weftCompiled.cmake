# weft::compiled: what files with WEFT_SEPARATE_COMPILATION defined leave out, compiled once for all programs of a project that link
# it. The library is built in the project that uses it, by its compiler with its flags, when a program asks for it.
if(NOT TARGET weft::compiled)
  add_library(weft_compiled STATIC EXCLUDE_FROM_ALL ${CMAKE_CURRENT_LIST_DIR}/weft.cpp)
  add_library(weft::compiled ALIAS weft_compiled)
  set_target_properties(weft_compiled PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_link_libraries(weft_compiled PUBLIC weft::weft)
  target_compile_definitions(weft_compiled PUBLIC WEFT_SEPARATE_COMPILATION)
endif()
