/** The delivery of an email: recipients by reason, the attempts at the chosen one, webhooks, the case file. */
import { type UseQueryResult, useQuery } from '@tanstack/react-query';
import { useNavigate, useSearch } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import type { Diagnosis, Email } from '../../../../../sdk/src/api.ts';
import { useApi } from '../../../api/scope.ts';
import { Problem } from '../../../ui/states.tsx';
import { AttemptsCard } from '../delivery/attempts-card.tsx';
import { groupRecipients } from '../delivery/recipient-groups.ts';
import { RecipientsCard } from '../delivery/recipients-card.tsx';
import { EmailWebhooks } from '../delivery/webhooks.tsx';
import { PrintedDialogues } from '../delivery/printed-dialogues.tsx';
import { CaseFileCard } from './case-file.tsx';
import type { OpenAction } from './email-actions.tsx';

const ROUTE = '/$project/$environment/emails/$id';

export function EmailDelivery(props: {
  email: Email;
  diagnosis: UseQueryResult<Diagnosis>;
  open: OpenAction;
}): ReactNode {
  const { email, diagnosis, open } = props;
  const api = useApi();
  const navigate = useNavigate();
  const { recipient: asked } = useSearch({ from: ROUTE });
  const events = useQuery(api.query('listEmailEvents', { path: { id: email.id } }));
  const groups = groupRecipients(email);
  const chosen =
    email.recipients.find(({ address }) => address === asked) ?? groups[0]?.recipients[0];
  const choose = (address: string): void =>
    void navigate({
      to: '.',
      params: true,
      search: (all) => ({ ...all, recipient: address, attempt: undefined }),
      replace: true,
    });
  return (
    <div className="grid grid-cols-1 gap-4 px-(--page-x) py-4">
      {/* The verdict and the attempts have all about a single recipient. */}
      {email.recipients.length > 1 && (
        <RecipientsCard
          groups={groups}
          chosen={chosen?.address ?? null}
          onChoose={choose}
          since={email.scheduled_at ?? email.created_at}
        />
      )}
      {diagnosis.isError && (
        <Problem error={diagnosis.error} retry={() => void diagnosis.refetch()} />
      )}
      {chosen && (
        <AttemptsCard
          email={email}
          recipient={chosen}
          events={events}
          diagnosis={diagnosis.data}
          isInVerdict={chosen === groups[0]?.recipients[0]}
        />
      )}
      <EmailWebhooks emailId={email.id} />
      <CaseFileCard onDownload={() => open('case-file')} />
      {events.isSuccess && <PrintedDialogues email={email} events={events.data.data} />}
    </div>
  );
}
