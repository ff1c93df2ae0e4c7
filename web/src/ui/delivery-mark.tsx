import type { ReactNode } from 'react';
import type { WebhookDelivery } from '../../../sdk/src/api.ts';
import { Chip } from './chip.tsx';

const LOOKS = { pending: 'wait', delivered: 'good', failed: 'bad' } as const;

/** The state of a webhook delivery. */
export function DeliveryMark({ status }: Pick<WebhookDelivery, 'status'>): ReactNode {
  return <Chip tone={LOOKS[status]}>{status}</Chip>;
}
