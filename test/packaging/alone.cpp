// What a newcomer has after copying the headers: no macro, no library. The reference kernels carry it.
#include <weft/error.hpp>

int main() { return weft::name(weft::error_code::data_loss)[0] == 'd' ? 0 : 1; }
