-- The trace of OpenTelemetry in which an email was accepted (src/lib/tracing/spans.ts). Null without an SDK.
alter table contents add column traceparent text;
