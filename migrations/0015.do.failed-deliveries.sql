-- An endpoint's failed deliveries, to be shown and sent again: few among millions that went well.
create index webhook_deliveries_failed on webhook_deliveries (project_id, endpoint_id, event_id)
  where status = 'failed';
