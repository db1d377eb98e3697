from omnigraph_pipelines.cli import main

raise SystemExit(main())
