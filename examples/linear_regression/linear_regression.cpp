// Linear regression by least squares: in closed form, and by batch, mini-batch and stochastic gradient descent. Ends
// with an error where one of them does not come to the closed form's coefficients: to 1e-6 for batch descent, to 0.01
// for the others. `--help` lists the flags.
#include "../regression.hpp"

int main(int argc, char** argv) {
  return regression::main(argc, argv, "Fits a linear function to examples, in four ways", 0);
}
