"""Agents and baselines of fact-checking over any chat model and any search back-end.

Modules, lowest first:

``reply``            a model's text -> its search calls, or what it ends with
``desk``             where one claim is checked: model, literature, limits, what was spent
``checked``          a claim that was checked, and every citation held against its source
``prompts``          the wording of agents and baselines
``biocheck``         the BioCheck agent and PMSearch: nodes, edges, and the plain loop
``graph``            the same nodes as a LangGraph state graph
``baselines``        No Retrieval, CER, FIRE
``methods``          the table of methods
``pages``            a checked claim as Markdown, JSON and HTML
``literature``       the files: a corpus to search, claims with their labels
``claims_run``       a file of claims, resumable
``scores``           what a method is worth on a file of claims, with intervals
``worlds``           a method as a policy of the fact-checking worlds
``evidence_scorer``  how strongly a text speaks for a verdict, by option log-probabilities
"""
