"""Scripts that measure and regenerate; not part of the installed packages."""
