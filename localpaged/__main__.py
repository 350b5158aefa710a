"""`python -m localpaged`."""

from localpaged.start import main

if __name__ == "__main__":
    main()
