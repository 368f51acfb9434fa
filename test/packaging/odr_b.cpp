#include "odr.hpp"

all_layouts layouts_elsewhere();
all_layouts layouts_elsewhere() { return layouts(); }
