"""Reports: tables, figures and the page, made from finished runs."""
