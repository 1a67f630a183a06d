"""Map files that are proposed from the data: `import table --init`."""
