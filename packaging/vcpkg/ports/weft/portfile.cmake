# SPDX-License-Identifier: BSL-1.0
# In a clone, the port builds the sources around it: vcpkg install weft --overlay-ports=packaging/vcpkg/ports
# In a registry, it downloads a released archive instead; the repository and the archive's SHA512 are filled in at release:
#   vcpkg_from_github(OUT_SOURCE_PATH SOURCE_PATH REPO ... REF "v${VERSION}" SHA512 ...)
get_filename_component(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../../../.." ABSOLUTE)

set(VCPKG_BUILD_TYPE release)  # headers only
vcpkg_check_features(OUT_FEATURE_OPTIONS FEATURE_OPTIONS
    FEATURES
        dnnl WEFT_WITH_DNNL
        jpeg WEFT_WITH_JPEG
        openssl WEFT_WITH_OpenSSL
        png WEFT_WITH_PNG
        zlib WEFT_WITH_ZLIB
    INVERTED_FEATURES
        boost CMAKE_DISABLE_FIND_PACKAGE_Boost
)
vcpkg_cmake_configure(
    SOURCE_PATH "${SOURCE_PATH}"
    OPTIONS
        ${FEATURE_OPTIONS}
        -DWEFT_BUILD_BENCHMARKS=OFF
        -DWEFT_BUILD_EXAMPLES=OFF
        -DWEFT_BUILD_TESTS=OFF
        -DWEFT_BUILD_TOOLS=OFF
        -DWEFT_WITH_CBLAS=OFF
        -DWEFT_WITH_CUDA=OFF
        -DWEFT_WITH_LAPACK=OFF
        -DWEFT_WITH_MPI=OFF
)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH share/cmake/weft)
vcpkg_fixup_pkgconfig()
file(INSTALL "${CMAKE_CURRENT_LIST_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
