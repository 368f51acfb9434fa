# SPDX-License-Identifier: BSL-1.0
# weft_import_onnx(TARGET MODEL.onnx [NAME name] [NCHW] [EXTENTS name=number ...] [CONSTANTS input=file.npy ...]): the build
# writes name.hpp and name.safetensors, the model as C++ and its weights, to ${CMAKE_CURRENT_BINARY_DIR}, and TARGET includes
# <name.hpp>. By default, the name is that of the file. It writes them again only after MODEL.onnx, its external data
# MODEL.onnx.data or a constant has changed.
function(weft_import_onnx target model)
  cmake_parse_arguments(PARSE_ARGV 2 arg "NCHW" "NAME" "CONSTANTS;EXTENTS")
  if(arg_UNPARSED_ARGUMENTS OR NOT TARGET ${target})
    message(FATAL_ERROR "usage: weft_import_onnx(TARGET MODEL.onnx [NAME name] [NCHW] [EXTENTS name=number ...] "
                        "[CONSTANTS input=file.npy ...])")
  endif()
  if(NOT TARGET weft::command)
    find_program(weft_COMMAND weft HINTS ${weft_DIR}/../../../bin NO_CACHE)
    if(NOT weft_COMMAND)
      message(FATAL_ERROR "weft_import_onnx needs the command weft: install Weft with -DWEFT_BUILD_TOOLS=ON, or write "
                          "set(WEFT_BUILD_TOOLS ON) before add_subdirectory")
    endif()
    add_executable(weft::command IMPORTED GLOBAL)
    set_target_properties(weft::command PROPERTIES IMPORTED_LOCATION ${weft_COMMAND})
  endif()
  get_filename_component(model ${model} ABSOLUTE)
  if(NOT arg_NAME)
    get_filename_component(arg_NAME ${model} NAME_WE)
    string(MAKE_C_IDENTIFIER ${arg_NAME} arg_NAME)
  endif()
  set(inputs ${model})
  if(EXISTS ${model}.data)
    list(APPEND inputs ${model}.data)
  endif()
  set(options --name ${arg_NAME})
  if(arg_NCHW)
    list(APPEND options --nchw)
  endif()
  foreach(extent IN LISTS arg_EXTENTS)
    list(APPEND options --extent ${extent})
  endforeach()
  foreach(constant IN LISTS arg_CONSTANTS)
    string(REGEX MATCH "^(.*)=([^=]*)$" valid ${constant})
    get_filename_component(file "${CMAKE_MATCH_2}" ABSOLUTE)
    list(APPEND inputs ${file})
    list(APPEND options --constant "${CMAKE_MATCH_1}=${file}")
  endforeach()
  set(written ${CMAKE_CURRENT_BINARY_DIR}/${arg_NAME}.hpp)
  add_custom_command(OUTPUT ${written} ${CMAKE_CURRENT_BINARY_DIR}/${arg_NAME}.safetensors
                     COMMAND weft::command import ${model} --out ${CMAKE_CURRENT_BINARY_DIR} ${options}
                     DEPENDS ${inputs} weft::command VERBATIM COMMENT "Importing ${arg_NAME} from ${model}")
  target_sources(${target} PRIVATE ${written})
  target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_BINARY_DIR})
endfunction()
