"""`python -m localpaged`."""

from localpaged.cli import main

if __name__ == "__main__":
    main()
