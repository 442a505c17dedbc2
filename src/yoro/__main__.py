"""`python -m yoro` is the command `yoro`."""

from yoro.cli.app import main

if __name__ == "__main__":
    main()
