# SPDX-License-Identifier: BSL-1.0
# Finds a BLAS with the C interface, OpenBLAS before others, as the target CBLAS::CBLAS.
#
# CMake's own FindBLAS finds the Fortran interface and no header. CBLAS_ROOT or CMAKE_PREFIX_PATH name an installation
# elsewhere.

find_path(CBLAS_INCLUDE_DIR cblas.h PATH_SUFFIXES openblas openblas-pthread)
find_library(CBLAS_LIBRARY NAMES openblas cblas blis mkl_rt)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CBLAS REQUIRED_VARS CBLAS_LIBRARY CBLAS_INCLUDE_DIR)
mark_as_advanced(CBLAS_INCLUDE_DIR CBLAS_LIBRARY)

if(CBLAS_FOUND AND NOT TARGET CBLAS::CBLAS)
  add_library(CBLAS::CBLAS UNKNOWN IMPORTED)
  set_target_properties(CBLAS::CBLAS PROPERTIES IMPORTED_LOCATION ${CBLAS_LIBRARY}
                                                INTERFACE_INCLUDE_DIRECTORIES ${CBLAS_INCLUDE_DIR})
endif()
