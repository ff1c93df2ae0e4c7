/** The limits that a recipient can wait for, in a few words. */
import type { Diagnosis } from '../../../../../sdk/src/api.ts';

type Delay = NonNullable<Diagnosis['recipients'][number]['held_by']>;

export const LIMITS: Readonly<Record<Delay['limit'], string>> = {
  attempt: 'Being delivered',
  database: 'Waiting for the database',
  hold: 'On hold',
  pause: 'Sending domain paused',
  sender: 'Waiting for the sending domain',
  signing_key: 'Waiting for the DKIM key',
  schedule: 'Scheduled',
  retry: 'Waiting for the next attempt',
  suspension: 'Provider suspended',
  rate: 'Rate limit of the provider',
  connections: 'Connection limit of the provider',
  project: 'Waiting for its turn',
  service: 'Waiting for the service',
  installation: 'Service on hold',
};
