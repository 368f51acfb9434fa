# SPDX-License-Identifier: BSL-1.0
# `cpack -G DEB` builds libweft-dev, weft-tools and weft-doc for Debian. test/packaging/deb.sh builds and tries them.

# weft-doc: the site if the target site has been built, or the pages that it is made of. Only packages contain it.
install(CODE "set(folder \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATADIR}/doc/weft-doc\")
              if(EXISTS \"${CMAKE_CURRENT_BINARY_DIR}/site/index.html\")
                file(INSTALL \"${CMAKE_CURRENT_BINARY_DIR}/site/\" DESTINATION \"\${folder}/html\")
              else()
                file(INSTALL \"${CMAKE_CURRENT_SOURCE_DIR}/README.md\" DESTINATION \"\${folder}\")
                file(INSTALL \"${CMAKE_CURRENT_SOURCE_DIR}/docs\" DESTINATION \"\${folder}\" PATTERN site EXCLUDE
                     PATTERN CMakeLists.txt EXCLUDE PATTERN \"*.py\" EXCLUDE PATTERN \"*.dot\" EXCLUDE)
              endif()" COMPONENT doc EXCLUDE_FROM_ALL)

set(CPACK_PACKAGE_NAME weft)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")  # the first line of each description
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL dev doc)
if(WEFT_BUILD_TOOLS)
  list(APPEND CPACK_COMPONENTS_ALL tools)
endif()

set(CPACK_DEBIAN_PACKAGE_MAINTAINER "Weft maintainers <maintainers@weft.invalid>" CACHE STRING
    "Name and address of whoever builds the Debian packages")
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_SOURCE_DIR}/packaging/debian/stage.cmake)

set(description
"Weft is a header-only C++20 library for machine learning. The element type
and the extents of a tensor are part of its type, so the compiler rejects
wrong shapes. Operations build a graph, Weft derives gradients from it, and
a session runs it in one process or on a cluster.
")

# libweft-dev. With WEFT_FIND_LATER it works without the libraries that this configuration has found.
set(required "")
set(recommended "")
set(kind required)
if(WEFT_FIND_LATER)
  set(kind recommended)
  list(APPEND recommended "libdnnl-dev | libopenblas-dev" zlib1g-dev libjpeg-dev libpng-dev)
else()
  foreach(pair IN ITEMS DNNL=libdnnl-dev CBLAS=libopenblas-dev ZLIB=zlib1g-dev JPEG=libjpeg-dev PNG=libpng-dev)
    string(REPLACE "=" ";" pair ${pair})
    list(GET pair 0 library)
    list(GET pair 1 package)
    if(WEFT_HAS_${library})
      list(APPEND required ${package})
    endif()
  endforeach()
endif()
list(APPEND recommended "libboost-dev (>= 1.74)" libssl-dev)
list(JOIN required ", " CPACK_DEBIAN_DEV_PACKAGE_DEPENDS)
list(JOIN recommended ", " CPACK_DEBIAN_DEV_PACKAGE_RECOMMENDS)
set(CPACK_DEBIAN_DEV_PACKAGE_SUGGESTS
    "cmake, libboost-serialization-dev, mpi-default-dev, nvidia-cuda-toolkit (>= 12), pkgconf, weft-doc, weft-tools")
set(CPACK_DEBIAN_DEV_PACKAGE_NAME libweft-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_ARCHITECTURE all)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_COMPONENT_DEV_DESCRIPTION
    "statically typed machine learning in C++ (headers)\n${description}.
This package contains the headers and the files of CMake and pkg-config.")

set(CPACK_DEBIAN_TOOLS_PACKAGE_NAME weft-tools)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SECTION science)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SUGGESTS "openssh-client")
set(CPACK_COMPONENT_TOOLS_DESCRIPTION
    "statically typed machine learning in C++ (commands)\n${description}.
This package contains the command weft, which inspects, compares and
converts files of tensors, and weft_launch, which starts the tasks of a
cluster.")

set(CPACK_DEBIAN_DOC_PACKAGE_NAME weft-doc)
set(CPACK_DEBIAN_DOC_PACKAGE_ARCHITECTURE all)
set(CPACK_DEBIAN_DOC_PACKAGE_SECTION doc)
set(CPACK_COMPONENT_DOC_DESCRIPTION
    "statically typed machine learning in C++ (documentation)\n${description}.
This package contains the pages and the API reference.")

include(CPack)
