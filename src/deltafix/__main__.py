"""`python -m deltafix` is `deltafix`."""

from deltafix.cli.main import main

__all__: list[str] = []

if __name__ == "__main__":
    main()
