"""The program language: parse, measure, compare and compile it. Program text is never executed."""
