/** The case file of an email: everything known about its delivery, signed, as a download. */
import { FileDown } from 'lucide-react';
import type { ReactNode } from 'react';
import type { Email } from '../../../../../sdk/src/api.ts';
import { respond } from '../../../api/client.ts';
import { saveResponse } from '../../../api/download.ts';
import { useApi } from '../../../api/scope.ts';
import { ActionForm } from '../../../ui/action-form.tsx';
import { Button } from '../../../ui/button.tsx';
import { Card } from '../../../ui/card.tsx';
import { textOf } from '../../../ui/field.tsx';
import { Select } from '../../../ui/select.tsx';
import { Tile } from '../../../ui/verdict.tsx';

export function CaseFileCard({ onDownload }: { onDownload: () => void }): ReactNode {
  return (
    <Card className="print:hidden">
      <div className="flex flex-wrap items-center gap-x-4 gap-y-3 max-sm:items-start max-sm:gap-x-3">
        <Tile icon={FileDown} tone="quiet" />
        <div className="min-w-48 grow basis-60">
          <h2 className="font-semibold">Case file</h2>
          <p className="text-sm text-muted">
            SMTP dialogues, TLS, DNS, events and hashes, signed by this installation, for a
            provider’s support or a dispute.
          </p>
        </div>
        <Button onClick={onDownload}>Download case file</Button>
      </div>
    </Card>
  );
}

export function CaseFileForm({ email, onDone }: { email: Email; onDone: () => void }): ReactNode {
  const { scope } = useApi();
  const download = async (form: FormData): Promise<void> => {
    const only = email.recipients.length > 1 ? textOf(form, 'recipient') : '';
    const path = { id: email.id };
    const response = await respond('getEmailCaseFile', {
      path,
      ...(only !== '' && { query: { recipient: only } }),
      scope,
    });
    await saveResponse(response, `case-${email.id}.json`);
    onDone();
  };
  return (
    <ActionForm action="Download" send={download}>
      <p>
        The file contains the installation’s record of the delivery. It contains the email’s content
        only as hashes. <code>letterhaus verify-receipt</code> verifies the signature, also on
        another machine.
      </p>
      {email.recipients.length > 1 && (
        <Select
          label="Recipients"
          name="recipient"
          options={[
            ['', 'All, with their addresses'],
            ...email.recipients.map(({ address }) => [address, `Only ${address}`] as const),
          ]}
        />
      )}
    </ActionForm>
  );
}
