"""Pure readers of plain text: detector, guard, relevance, summaries, values, validity, questions, stems."""
