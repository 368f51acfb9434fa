# SPDX-License-Identifier: BSL-1.0
"""Weft as a package of Conan 2: conan create . --build=missing

Consumers find the targets weft::weft, weft::headers, weft::data, weft::distributed, weft::compiled and
weft::compiled_distributed, and set the C++ standard to 20 themselves.
"""
import re
from pathlib import Path

from conan import ConanFile
from conan.tools.files import copy, load

VERSION = "include/weft/version.hpp"


class Weft(ConanFile):
    name = "weft"
    license = "BSL-1.0"
    topics = ("machine-learning", "deep-learning", "distributed", "header-only")
    package_type = "header-library"
    settings = "os", "arch", "compiler", "build_type"
    options = {f"with_{each}": [True, False] for each in ("dnnl", "zlib", "jpeg", "png", "distributed", "openssl")}
    options["system_libraries"] = [True, False]
    # ConanCenter has no recipe of oneDNN: with_dnnl is the system's library.
    default_options = {"with_dnnl": False, "with_zlib": True, "with_jpeg": True, "with_png": True, "with_distributed": True,
                       "with_openssl": True, "system_libraries": False}
    exports_sources = "LICENSE", "include/*", "cmake/weft*.cpp", "cmake/weftCompiled.cmake", "cmake/weftImport.cmake"
    exports = "CMakeLists.txt", VERSION
    no_copy_source = True
    test_package_folder = "packaging/conan/test_package"

    def init(self):
        numbers = re.findall(r"define WEFT_VERSION_\w+ (\d+)\n", load(self, Path(self.recipe_folder, VERSION)))
        self.version = ".".join(numbers)
        project = load(self, Path(self.recipe_folder, "CMakeLists.txt"))
        self.description = re.search(r'DESCRIPTION "(.+)"', project)[1]

    def libraries(self):
        """The chosen libraries: component, macro, Conan's package, its version, its target, libraries of the system."""
        all_libraries = {
            "dnnl": ("headers", "WEFT_HAS_DNNL", None, None, None, ["dnnl"]),
            "zlib": ("data", "WEFT_HAS_ZLIB", "zlib", "[>=1.2.11 <2]", "zlib::zlib", ["z"]),
            "jpeg": ("data", "WEFT_HAS_JPEG", "libjpeg", "[>=9e]", "libjpeg::libjpeg", ["jpeg"]),
            "png": ("data", "WEFT_HAS_PNG", "libpng", "[>=1.6 <2]", "libpng::libpng", ["png"]),
            "distributed": ("distributed", None, "boost", "[>=1.74]", "boost::headers", []),
            "openssl": ("distributed", "WEFT_HAS_OPENSSL", "openssl", "[>=1.1 <4]", "openssl::openssl", ["ssl", "crypto"]),
        }
        for name, library in all_libraries.items():
            if self.options.get_safe(f"with_{name}"):
                yield library

    def configure(self):
        if not self.options.with_distributed:
            del self.options.with_openssl

    def requirements(self):
        for _, _, package, version, _, _ in self.libraries():
            if package and not self.options.system_libraries:
                self.requires(f"{package}/{version}")

    def package_id(self):
        self.info.clear()

    def package(self):
        copy(self, "LICENSE", self.source_folder, Path(self.package_folder, "licenses"))
        copy(self, "*", Path(self.source_folder, "include"), Path(self.package_folder, "include"))
        copy(self, "*", Path(self.source_folder, "cmake"), Path(self.package_folder, "cmake"))

    def package_info(self):
        # The target of the package itself, which by default has the name of the core.
        self.cpp_info.set_property("cmake_target_name", "weft::all")
        self.cpp_info.set_property("cmake_build_modules", ["cmake/weftCompiled.cmake", "cmake/weftImport.cmake"])
        needs = {"headers": [], "weft": ["headers"], "data": ["weft"], "distributed": ["weft"]}
        if not self.options.with_distributed:
            del needs["distributed"]
        for name, requires in needs.items():
            component = self.cpp_info.components[name]
            component.set_property("cmake_target_name", f"weft::{name}")
            component.set_property("pkg_config_name", "weft" if name == "weft" else f"weft-{name}")
            component.bindirs = component.libdirs = []
            component.requires = requires
        self.cpp_info.components["headers"].system_libs.append("pthread")
        for name, macro, package, _, target, libraries in self.libraries():
            component = self.cpp_info.components[name]
            if macro:
                component.defines.append(f"{macro}=1")
            if package and not self.options.system_libraries:
                component.requires.append(target)
            else:
                component.system_libs += libraries
