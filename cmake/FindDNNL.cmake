# SPDX-License-Identifier: BSL-1.0
# Finds oneDNN, 2.6 or newer, as the target DNNL::DNNL.
#
# The package's own configuration file is passed over on purpose: Debian's asks for OpenCL, which Weft does not use, and
# ends the configuration where OpenCL is absent. DNNL_ROOT or CMAKE_PREFIX_PATH name an installation elsewhere.

find_path(DNNL_INCLUDE_DIR oneapi/dnnl/dnnl.hpp)
find_library(DNNL_LIBRARY dnnl)

if(DNNL_INCLUDE_DIR)
  file(STRINGS ${DNNL_INCLUDE_DIR}/oneapi/dnnl/dnnl_version.h dnnl_version_lines REGEX "define DNNL_VERSION_(MAJOR|MINOR|PATCH)")
  string(REGEX REPLACE "[^0-9]*([0-9]+)[^0-9]+([0-9]+)[^0-9]+([0-9]+).*" "\\1.\\2.\\3" DNNL_VERSION "${dnnl_version_lines}")
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(DNNL REQUIRED_VARS DNNL_LIBRARY DNNL_INCLUDE_DIR VERSION_VAR DNNL_VERSION)
mark_as_advanced(DNNL_INCLUDE_DIR DNNL_LIBRARY)

if(DNNL_FOUND AND NOT TARGET DNNL::DNNL)
  add_library(DNNL::DNNL UNKNOWN IMPORTED)
  set_target_properties(DNNL::DNNL PROPERTIES IMPORTED_LOCATION ${DNNL_LIBRARY}
                                              INTERFACE_INCLUDE_DIRECTORIES ${DNNL_INCLUDE_DIR})
endif()
