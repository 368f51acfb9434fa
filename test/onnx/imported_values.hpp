// SPDX-License-Identifier: BSL-1.0
#pragma once

// Written by make_imported.py.
inline constexpr float logits_of_pytorch[] = {0.3081817f, 0.3276005f, 0.161758f,  -0.2360883f, 0.05219432f,
                                              0.3065034f, 0.3259234f, 0.1604983f, -0.2349111f, 0.05299357f,
                                              0.3076942f, 0.3267385f, 0.1608883f, -0.2355061f, 0.05245486f,
                                              0.3072296f, 0.3279974f, 0.1619555f, -0.2356403f, 0.05271704f};
/// After 1, 10, 20, ..., 100 steps.
inline constexpr float losses_of_pytorch[] = {1.634371f, 1.537861f, 1.481919f, 1.447689f, 1.42472f, 1.40802f,
                                              1.3966f,   1.388598f, 1.382899f, 1.378564f, 1.375077f};
