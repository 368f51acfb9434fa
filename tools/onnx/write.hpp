// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <string>

#include "importer.hpp"

/// The files that the importer writes.
namespace tool::importer {

/// Returns the header with the model.
std::string header_text(importer& of);
/// Returns the program that reads inputs from .npy files and writes outputs to .npy files.
std::string program_text(const importer& of);
/// Writes the weights.
void write_weights(const importer& of, const std::string& path);

}  // namespace tool::importer
