"""Fact-checking with a search engine: search, cite, decide, and be checked exactly.

Modules, lowest first:

``verdict``         the three verdicts
``query_ast``       a parsed PubMed query, and its PubMed and FTS5 texts
``query_tokens``    any text as tokens; ``uses_boolean``
``query_error``     the named errors of queries
``query``           text -> query or error
``corpus``          articles and claims, and the files they are read from
``search``          the protocol of a search back-end, and the local index
``claims``          a user's claims with labels; SciFact and HealthFC as published
``ncbi_error``      what is raised when PubMed cannot answer
``ncbi_answers``    a reply of esearch -> result or error
``ncbi_records``    a reply of efetch -> articles
``ncbi_cache``      replies on disk, and the pace that processes share
``ncbi_transport``  requests with patience
``ncbi``            PubMed itself as a search back-end
``report``          the report and how it is written
``report_parser``   text -> report and its errors
``rouge``           ROUGE-L precision
``rewards``         the published reward, part by part
``metrics``         label metrics, EQS, EHR
``quote_audit``     quotes that pass ROUGE-L and still distort
``evidence_audit``  evidence that is paid, or punished, without reason

The worlds ``ClinicalFactCheck-v0`` and ``ClinicalFactCheckLabel-v0`` stand on them:

``topics``            the claim of a case
``designs``           bodies of evidence and their wording
``studies``           its invented studies
``library``           query -> the body of evidence it retrieves
``reporting``         decision -> report, and report -> way of reporting
``turns``             text -> what a turn does
``dialogue``          the encounter in text
``training_rewards``  the published reward and metrics of an episode
``log_rows``          episodes -> rows for ``reward-audit``
``examples``          a few claims written by hand
"""
