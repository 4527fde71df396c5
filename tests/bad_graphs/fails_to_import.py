"""Imports what is not there."""

import no_such_package_anywhere  # noqa: F401  # the mistake
