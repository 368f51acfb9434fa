# SPDX-License-Identifier: BSL-1.0
# Several test programs as one file: their headers come first, each once, and then every test in a namespace of its own.
# A compiler does its work on the headers, and on what the tests have in common, once.
#
# The tests, and headers beside them, are named from the folder of this file.
#
# usage: cmake -DFILE=... -DFIRST=HEADER... -DTESTS=TEST.cpp... -P together.cmake

set(headers "")
set(tests "")
foreach(header IN LISTS FIRST)
  string(APPEND headers "#include \"${header}\"\n")
endforeach()
foreach(test IN LISTS TESTS)
  get_filename_component(folder ${test} DIRECTORY)
  get_filename_component(name ${test} NAME_WE)
  get_filename_component(folder_name ${folder} NAME)
  file(RELATIVE_PATH folder_from_here ${CMAKE_CURRENT_LIST_DIR} ${folder})
  # The lines before the first that is neither blank, a comment nor for the preprocessor.
  file(READ ${test} text)
  string(REGEX MATCH "^(([ \t]*(#|//)[^\n]*)?\n)*" head "${text}")
  string(REGEX MATCHALL "#[^\n]*" lines "${head}")
  list(FILTER lines EXCLUDE REGEX "define BOOST_TEST_")
  foreach(line IN LISTS lines)
    if(line MATCHES "^#[ ]*include \"(.*)\"")
      if(EXISTS ${folder}/${CMAKE_MATCH_1})
        set(line "#include <${folder_from_here}/${CMAKE_MATCH_1}>")
      endif()
    endif()
    string(APPEND headers "${line}\n")
  endforeach()
  string(APPEND tests "namespace ${folder_name}_${name} {\n#include <${folder_from_here}/${name}.cpp>\n}\n")
endforeach()
file(WRITE ${FILE} "${headers}\n${tests}")
