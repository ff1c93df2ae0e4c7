-- Replays of the deliveries that a filter finds (src/webhooks/replay-store.ts). Null: any.

alter table webhook_replays
  add column event_type text,
  add column response_code text; -- as in the API: 500, 5xx or none
