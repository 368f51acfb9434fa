// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <string_view>

#include <weft/config.hpp>

/// Names that written C++ cannot use.
namespace weft::detail {

/// The keywords of C++, and macros of the standard library, Unix and Qt.
inline constexpr std::string_view words_of_cpp =
    "alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class compl "
    "concept const consteval constexpr constinit const_cast continue co_await co_return co_yield decltype default "
    "delete do double dynamic_cast else enum explicit export extern false float for friend goto if inline int long "
    "mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public register "
    "reinterpret_cast requires return short signed sizeof static static_assert static_cast struct switch template this "
    "thread_local throw true try typedef typeid typename union unsigned using virtual void volatile wchar_t while xor "
    "xor_eq assert errno stdin stdout stderr EOF NULL M_E M_LN2 M_LN10 M_LOG2E M_LOG10E M_PI M_PI_2 M_PI_4 M_SQRT2 NAN "
    "INFINITY I linux unix slots signals emit";

/// Functions and variables of C and Unix, whose names no namespace can have.
inline constexpr std::string_view functions_of_c =
    "abort abs accept access acos acosh alarm asin asinh atan atan2 atanh atexit atof atoi atol bcmp bcopy bind brk "
    "bsearch bzero cbrt calloc ceil chdir chmod chown clock close connect copysign cos cosh creat ctime daemon "
    "difftime "
    "div dup environ erf erfc execl execv exit exp exp2 expm1 fabs fclose fdim feof ferror fflush ffs fgetc fgets "
    "floor "
    "fma fmax fmin fmod fopen fork fprintf fputc fputs fread free frexp fscanf fseek ftell fwrite gamma getc getchar "
    "getenv gets gmtime hypot ilogb index ioctl isalnum isalpha isatty isdigit islower isspace isupper j0 j1 jn kill "
    "labs ldexp lgamma link listen llabs llrint llround localtime log log10 log1p log2 logb longjmp lrint lround lseek "
    "main malloc memchr memcmp memcpy memmove memset mkdir mktime mmap modf mount nan nearbyint nextafter nice open "
    "optarg opterr optind optopt pause perror pipe poll pow printf putc putchar puts qsort raise rand random read "
    "realloc recv remainder remove rename rewind rindex rint rmdir round scalbn scanf select send setenv signal "
    "signgam "
    "significand sin sinh sleep socket sprintf sqrt srand srandom sscanf stat stime strcat strchr strcmp strcpy strdup "
    "strlen strncmp strstr strtod strtok strtol swab symlink sync syscall sysconf system tan tanh tgamma time times "
    "timezone tmpfile tmpnam toascii tolower toupper trunc truncate ungetc unlink usleep utime wait write y0 y1 yn";

/// Whether a list of words contains a word.
inline bool has_word(std::string_view words, std::string_view word) {
  for (std::size_t at = 0; (at = words.find(word, at)) != words.npos; at += word.size()) {
    const std::size_t end = at + word.size();
    if ((at == 0 || words[at - 1] == ' ') && (end == words.size() || words[end] == ' ')) return true;
  }
  return false;
}

}  // namespace weft::detail
