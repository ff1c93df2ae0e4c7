/** Makes a large backlog in the queue table by copying a waiting email: 100,000 complete emails in seconds. */
import type { Service } from './service.ts';

/** The copies' ids have the time of the original's, so they are in the same partition. */
const COPY = `
with made as materialized (
  select (left($1::uuid::text, 15) || substr(gen_random_uuid()::text, 16))::uuid as id, number,
         ($2::text[])[1 + number % cardinality($2::text[])] as domain
    from generate_series(0, $3::int - 1) number
), new_emails as (
  insert into emails (project_id, environment, id, created_at, expires_at, domain_id, dual_signed,
                      key_id, from_address, from_name, to_list, cc_list, bcc_list, reply_to,
                      subject, tags, metadata, open_count, worst, event_count, last_event)
  select project_id, environment, made.id, created_at, expires_at, domain_id, dual_signed, key_id,
         from_address, from_name, to_list, cc_list, bcc_list, reply_to, subject, tags, metadata, 1,
         0, 1, last_event
    from emails, made where emails.id = $1::uuid
), new_contents as (
  insert into contents (project_id, email_id, html, large_html, body_text, headers, attachments,
                        unsubscribe_url, tls)
  select project_id, made.id, html, large_html, body_text, headers, attachments, unsubscribe_url,
         tls
    from contents, made where contents.email_id = $1::uuid
), new_recipients as (
  insert into recipients (project_id, email_id, position, address, kind, status, next_attempt_at)
  select project_id, made.id, 0, 'n' || made.number || '@' || made.domain, kind, 'queued', app_now()
    from recipients, made where recipients.email_id = $1::uuid and recipients.position = 0
)
insert into queue (project_id, email_id, position, environment, destination, provider, due_at)
select emails.project_id, made.id, 0, emails.environment, made.domain, made.domain,
       app_now() + $4::int * interval '1 millisecond' + made.number * interval '1 microsecond'
  from emails, made where emails.id = $1::uuid`;

/**
 * Copies an email `count` times, each to one recipient: n0@…, n1@…, at the domains in turn.
 * @param options.dueInMs milliseconds until they are due, negative for the past; default ten minutes
 */
export async function queueCopies(
  service: Service,
  id: string,
  options: { count: number; domains: readonly string[]; dueInMs?: number },
): Promise<void> {
  await service.sql(COPY, [id, options.domains, options.count, options.dueInMs ?? -600_000]);
}
