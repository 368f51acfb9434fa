# SPDX-License-Identifier: BSL-1.0
# Finds cuDNN, 9 or newer, as the target CUDNN::CUDNN: beside the CUDA toolkit, in the system's folders, or where
# CUDNN_ROOT says; a Python package of it, which has no libcudnn.so, will do.

find_path(CUDNN_INCLUDE_DIR cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
find_library(CUDNN_LIBRARY NAMES cudnn libcudnn.so.9 HINTS ${CUDAToolkit_LIBRARY_DIR} PATH_SUFFIXES lib lib64)

if(CUDNN_INCLUDE_DIR)
  foreach(header cudnn_version.h cudnn_version_v9.h)
    if(EXISTS ${CUDNN_INCLUDE_DIR}/${header})
      file(STRINGS ${CUDNN_INCLUDE_DIR}/${header} cudnn_version_lines REGEX "define CUDNN_(MAJOR|MINOR|PATCHLEVEL) ")
      string(REGEX REPLACE "[^0-9]*([0-9]+)[^0-9]+([0-9]+)[^0-9]+([0-9]+).*" "\\1.\\2.\\3" CUDNN_VERSION "${cudnn_version_lines}")
      break()
    endif()
  endforeach()
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CUDNN REQUIRED_VARS CUDNN_LIBRARY CUDNN_INCLUDE_DIR VERSION_VAR CUDNN_VERSION)
mark_as_advanced(CUDNN_INCLUDE_DIR CUDNN_LIBRARY)

if(CUDNN_FOUND AND NOT TARGET CUDNN::CUDNN)
  add_library(CUDNN::CUDNN UNKNOWN IMPORTED)
  set_target_properties(CUDNN::CUDNN PROPERTIES IMPORTED_LOCATION ${CUDNN_LIBRARY}
                                                INTERFACE_INCLUDE_DIRECTORIES ${CUDNN_INCLUDE_DIR})
endif()
