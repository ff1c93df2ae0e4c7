import type { ReactNode } from 'react';
import type { WebhookDelivery } from '../../../sdk/src/api.ts';
import { Mark } from './mark.tsx';

const LOOKS = { pending: 'wait', delivered: 'good', failed: 'bad' } as const;

/** The state of a webhook delivery. */
export function DeliveryMark({ status }: Pick<WebhookDelivery, 'status'>): ReactNode {
  return <Mark look={LOOKS[status]}>{status}</Mark>;
}
