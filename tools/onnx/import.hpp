// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "importer.hpp"

namespace tool::importer {

/// Imports an ONNX file: writes NAME.hpp and NAME.safetensors, and NAME.cpp if a program is asked for. Writes nothing
/// if the model cannot be imported.
void import_file(options o);

}  // namespace tool::importer
