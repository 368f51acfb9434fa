// SPDX-License-Identifier: BSL-1.0
#include <weft/ops/signals/stft.hpp>
#include <weft/weft.hpp>
using namespace weft;

// case rfft_named: The length of a real transform is not known.
// error: length_is_not_a_number
// error: rfft: needs float or double \[..., n\], where n is a number
graph g;
auto x = placeholder<float, dims<4, dyn<"n">>>(g, "x");
auto y = rfft(x);                // wrong
auto y = fft(x, zeros_like(x));  // right

// case irfft_length: A length that the operands do not have.
// error: length_does_not_fit
// error: irfft: irfft<n>\(real, imag\) needs parts of equal extents \[..., n / 2 \+ 1\]
graph g;
auto x = placeholder<float, dims<4, 8>>(g, "x");
auto y = irfft<10>(rfft(x).real, rfft(x).imag);  // wrong
auto y = irfft<8>(rfft(x).real, rfft(x).imag);   // right

// case fft_types: The parts have different types.
// error: complex_parts_differ
// error: fft: needs real and imaginary parts of equal extents \[..., n\], float or double
graph g;
auto x = placeholder<float, dims<4, 8>>(g, "x");
auto y = fft(x, cast<double>(x));  // wrong
auto y = fft(x, x);                // right

// case stft_length: Frames longer than the signals.
// error: frames_do_not_fit
// error: stft: needs signals \[batch, n\] of float or double, a length of 1 to n
graph g;
auto x = placeholder<float, dims<4, 100>>(g, "x");
auto y = stft<stft_options{.length = 128, .step = 64}>(x);  // wrong
auto y = stft<stft_options{.length = 64, .step = 32}>(x);   // right
