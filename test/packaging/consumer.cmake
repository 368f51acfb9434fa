# Builds and runs test/packaging/consumer against Weft, taken as WAY says: find_package or add_subdirectory.
#
# usage: cmake -DWAY=... -DSOURCE=... -DBINARY=... -DCOMPILER=... -DGENERATOR=... -DDISTRIBUTED=... -DCUDA=...
#        -DLAUNCHER=... -P consumer.cmake

set(folder ${BINARY}/consumer/${WAY})
file(REMOVE_RECURSE ${folder})
set(components data)
if(DISTRIBUTED)
  string(APPEND components ";distributed")
endif()
if(CUDA)
  string(APPEND components ";cuda")
endif()

if(WAY STREQUAL "find_package")
  execute_process(COMMAND ${CMAKE_COMMAND} --install ${BINARY} --prefix ${folder}/prefix OUTPUT_QUIET
                  COMMAND_ERROR_IS_FATAL ANY)
  file(GLOB license ${folder}/prefix/share/doc/*/LICENSE)
  if(NOT license)
    message(FATAL_ERROR "the licence is not installed")
  endif()
  if(NOT EXISTS ${folder}/prefix/share/weft/gdb/weft.py)
    message(FATAL_ERROR "gdb's printers are not installed")
  endif()
  set(way -DCMAKE_PREFIX_PATH=${folder}/prefix)
else()
  set(way -DWEFT_SOURCE_DIR=${SOURCE})
endif()

execute_process(COMMAND ${CMAKE_COMMAND} -S ${SOURCE}/test/packaging/consumer -B ${folder}/build -G ${GENERATOR}
                        -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER} "-DWEFT_COMPONENTS=${components}" ${way}
                COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_COMMAND} --build ${folder}/build COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${folder}/build/consumer COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${folder}/build/compiled COMMAND_ERROR_IS_FATAL ANY)
