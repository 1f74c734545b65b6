"""The embedded database: ``pip install duramen[store]``."""

try:
    from duramen_native import *  # type: ignore[import-not-found,unused-ignore]  # noqa: F403
except ImportError as error:
    raise ImportError(
        "duramen.store needs the native module: pip install 'duramen[store]'"
    ) from error
