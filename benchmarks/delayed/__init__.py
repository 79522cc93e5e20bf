"""Three small campaigns whose pay-off comes late, for `estra_ablation`: landscapes, a judge, and searching workers."""
