"""Old names, for one release: see pages, compare, reporting and capabilities."""

from headcount.core import moved

__getattr__ = moved(
    __name__,
    {
        "analysis": "confirmation_document",
        "artifact": "head_card",
        "compare": (
            "Comparison KeptHeads PruningOrder compare comparison_document match_heads "
            "matching_sentence matching_title pruning_orders write_comparison"
        ),
        "explanation": "explanation_summary show_explained",
        "pages": (
            "Given LOOKING_SCRIPTS LOOKING_STYLES Report SITE_TITLES Shown attention_data "
            "command curve_command document_of document_page draw_numbers fill_template "
            "notebook_html render report_view sharpest short_name show show_analysis "
            "show_card site_sentence story verdict why_none write_documents write_report"
        ),
        "pruning": "curve_of numbers_table",
        "reporting": "write_figures",
    },
)
