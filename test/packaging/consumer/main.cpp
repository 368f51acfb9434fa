#include <weft/data/idx.hpp>
#include <weft/error.hpp>

int main() {
  try {
    weft::data::read_idx<unsigned char>("no such file");
  } catch (const weft::error& e) {
    return e.code() == weft::error_code::not_found ? 0 : 1;
  }
  return 1;
}
