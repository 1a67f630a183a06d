"""Row expressions: functions, types and parts of a timestamp; refused functions with reasons."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Function:
    """A function: how it is written, its least and largest number of arguments, what it returns."""

    usage: str
    least: int
    most: int
    does: str


MANY: Final = 1000
"""The largest number of arguments of a function that takes any number."""

FUNCTIONS: Final = {
    "ABS": Function("ABS(number)", 1, 1, "the number without its sign"),
    "CEIL": Function("CEIL(number)", 1, 1, "rounded up to a whole number"),
    "COALESCE": Function("COALESCE(value, ...)", 1, MANY, "the first value that is not NULL"),
    "CONCAT": Function("CONCAT(value, ...)", 1, MANY, "the strings in a row; NULL counts as ''"),
    "DATE_PART": Function("DATE_PART('part', time)", 2, 2, "the same as EXTRACT(part FROM time)"),
    "ENDS_WITH": Function("ENDS_WITH(string, string)", 2, 2, "whether the first ends with the "
                          "second"),
    "EXP": Function("EXP(number)", 1, 1, "e to the power of the number"),
    "FLOOR": Function("FLOOR(number)", 1, 1, "rounded down to a whole number"),
    "GREATEST": Function("GREATEST(value, ...)", 1, MANY, "the largest value that is not NULL"),
    "LEAST": Function("LEAST(value, ...)", 1, MANY, "the smallest value that is not NULL"),
    "LEFT": Function("LEFT(string, n)", 2, 2, "the first n characters; all but the last -n where n "
                     "is negative"),
    "LENGTH": Function("LENGTH(string)", 1, 1, "the number of characters"),
    "LN": Function("LN(number)", 1, 1, "the natural logarithm"),
    "LOG10": Function("LOG10(number)", 1, 1, "the logarithm to base 10"),
    "LOG2": Function("LOG2(number)", 1, 1, "the logarithm to base 2"),
    "LOWER": Function("LOWER(string)", 1, 1, "in small letters"),
    "LTRIM": Function("LTRIM(string[, 'letters'])", 1, 2, "without leading blanks, or without "
                      "leading characters of a set"),
    "MOD": Function("MOD(number, number)", 2, 2, "the remainder, the same as `%`"),
    "NULLIF": Function("NULLIF(value, value)", 2, 2, "NULL if both are equal, otherwise the first"),
    "POWER": Function("POWER(number, number)", 2, 2, "the first to the power of the second"),
    "REGEXP_LIKE": Function("REGEXP_LIKE(string, 'pattern'[, 'flags'])", 2, 3, "whether a part of "
                            "the string matches; flags: i (any case), m, s, x"),
    "REGEXP_REPLACE": Function("REGEXP_REPLACE(string, 'pattern', 'new')", 3, 3, "the first match "
                               "replaced; `\\1` is the first group"),
    "REPLACE": Function("REPLACE(string, 'old', 'new')", 3, 3, "every occurrence replaced"),
    "RIGHT": Function("RIGHT(string, n)", 2, 2, "the last n characters; all but the first -n where "
                      "n is negative"),
    "ROUND": Function("ROUND(number[, digits])", 1, 2, "rounded to the nearest, halves to even; "
                      "digits: a constant from 0 to 15"),
    "RTRIM": Function("RTRIM(string[, 'letters'])", 1, 2, "without trailing blanks, or without "
                      "trailing characters of a set"),
    "SIGN": Function("SIGN(number)", 1, 1, "-1, 0 or 1"),
    "SPLIT_PART": Function("SPLIT_PART(string, 'separator', n)", 3, 3, "part n, the last is -1; '' "
                           "where there is none"),
    "SQRT": Function("SQRT(number)", 1, 1, "the square root; NaN of a negative number"),
    "STARTS_WITH": Function("STARTS_WITH(string, string)", 2, 2, "whether the first begins with "
                            "the second"),
    "STRPOS": Function("STRPOS(string, string)", 2, 2, "where the second begins in the first, "
                       "counted from 1; 0: nowhere, or NULL"),
    "SUBSTR": Function("SUBSTR(string, start[, length])", 2, 3, "characters from `start`, counted "
                       "from 1"),
    "TRIM": Function("TRIM(string)", 1, 1, "without leading and trailing blanks"),
    "TRUNC": Function("TRUNC(number)", 1, 1, "without the fraction"),
    "UPPER": Function("UPPER(string)", 1, 1, "in capitals"),
}  # fmt: skip

ALIASES: Final = {
    "CEILING": "CEIL",
    "CHAR_LENGTH": "LENGTH",
    "CHARACTER_LENGTH": "LENGTH",
    "IFNULL": "COALESCE",
    "POW": "POWER",
    "SUBSTRING": "SUBSTR",
    "TRUNCATE": "TRUNC",
}

SYNTAX: Final = {
    "CAST": "CAST(value AS type)",
    "TRY_CAST": "TRY_CAST(value AS type)",
    "EXTRACT": "EXTRACT(part FROM time)",
    "IF": "IF(condition, value, value)",
}
"""Functions that the parser itself knows."""

TYPES: Final = {
    "BIGINT": "a whole number of 64 bits",
    "BOOLEAN": "TRUE or FALSE",
    "DATE": "a day",
    "DECIMAL": "a decimal number; DECIMAL(precision, scale), otherwise (38, 9)",
    "DOUBLE": "a floating-point number of 64 bits",
    "INTEGER": "a whole number of 32 bits",
    "REAL": "a floating-point number of 32 bits",
    "SMALLINT": "a whole number of 16 bits",
    "TEXT": "a string",
    "TIMESTAMP": "a timestamp without a time zone",
    "TINYINT": "a whole number of 8 bits",
}
TYPE_ALIASES: Final = {
    "BOOL": "BOOLEAN",
    "CHAR": "TEXT",
    "DATETIME": "TIMESTAMP",
    "FLOAT": "DOUBLE",
    "FLOAT4": "REAL",
    "FLOAT8": "DOUBLE",
    "INT": "INTEGER",
    "INT2": "SMALLINT",
    "INT4": "INTEGER",
    "INT8": "BIGINT",
    "INT64": "BIGINT",
    "NUMERIC": "DECIMAL",
    "STRING": "TEXT",
    "VARCHAR": "TEXT",
}

PARTS: Final = {
    "YEAR": "",
    "QUARTER": "1 to 4",
    "MONTH": "1 to 12",
    "WEEK": "of ISO 8601",
    "DAY": "of the month",
    "DOY": "day of the year, from 1",
    "DOW": "day of the week, Sunday is 0",
    "ISODOW": "day of the week, Monday is 1, Sunday 7",
    "HOUR": "0 to 23",
    "MINUTE": "0 to 59",
    "SECOND": "0 to 59, without a fraction",
    "EPOCH": "seconds since 1970, with a fraction",
}
"""Parts of a date or timestamp for EXTRACT."""

_AGGREGATES = [
    "ANY_VALUE", "APPROX_COUNT_DISTINCT", "ARRAY_AGG", "AVG", "BOOL_AND", "BOOL_OR", "CORR",
    "COUNT", "COVAR_POP", "COVAR_SAMP", "CUME_DIST", "DENSE_RANK", "FIRST", "FIRST_VALUE", "LAG",
    "LAST", "LAST_VALUE", "LEAD", "LISTAGG", "MEAN", "MEDIAN", "MODE", "NTH_VALUE", "NTILE",
    "PERCENTILE_CONT", "PERCENTILE_DISC", "PERCENT_RANK", "QUANTILE", "QUANTILE_CONT",
    "QUANTILE_DISC", "RANK", "ROW_NUMBER", "STDDEV", "STDDEV_POP", "STDDEV_SAMP", "STDEV",
    "STRING_AGG", "SUM", "UNNEST", "VAR", "VARIANCE", "VAR_POP", "VAR_SAMP",
]  # fmt: skip
_READERS = [
    "READ_CSV", "READ_CSV_AUTO", "READ_IPC", "READ_JSON", "READ_NDJSON", "READ_PARQUET",
    "READ_TEXT", "READ_BLOB", "SCAN_CSV", "SCAN_PARQUET", "GLOB", "GETENV",
]  # fmt: skip
_LARGE = ["LPAD", "RPAD", "REPEAT", "SPACE"]

REFUSED: Final = {
    **dict.fromkeys(_AGGREGATES, "it looks at other rows: compute it beforehand"),
    "MIN": "it looks at other rows; LEAST compares the values of one row",
    "MAX": "it looks at other rows; GREATEST compares the values of one row",
    **dict.fromkeys(_READERS, "it opens files; an expression reads columns alone"),
    **dict.fromkeys(_LARGE, "it can make a string of any length; use || with constants"),
}
"""Functions of SQL that are refused, and why."""
