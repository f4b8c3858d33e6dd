"""`python -m kembed` is the command line."""

from kembed.cli import main

if __name__ == "__main__":
    main()
