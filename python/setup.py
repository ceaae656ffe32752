"""The package nru with the compiled operators that lie beside its modules."""
import pathlib

from setuptools import Distribution, setup

if not (pathlib.Path(__file__).parent / "nru" / "libnru_operators.so").exists():
    raise SystemExit("nru/libnru_operators.so is missing: run 'make python', which builds and installs")


class BinaryDistribution(Distribution):
    """A wheel for this platform, though setuptools compiles nothing."""

    def has_ext_modules(self):
        return True


setup(
    name="nru",
    version="0.1.0",
    description="The Non-saturating Recurrent Unit and the networks it is compared with",
    license="Apache-2.0",
    python_requires=">=3.8",
    packages=["nru"],
    package_data={"nru": ["libnru_operators.so"]},
    distclass=BinaryDistribution,
    zip_safe=False,
)
