"""What an operator raises when it is called wrongly."""


class KernelError(Exception):
    """Base of all errors of this package."""


class UnsupportedShape(KernelError):
    """Shapes, dtypes or devices that do not fit together; the message has expected and got."""
