// SPDX-License-Identifier: BSL-1.0
#include "odr.hpp"

all_layouts layouts_elsewhere();
all_layouts layouts_elsewhere() { return layouts(); }
