import { Dialog as Base } from '@base-ui/react/dialog';
import { X } from 'lucide-react';
import { createContext, type ReactNode, useRef } from 'react';
import { isPageCovered } from '../api/cover.ts';
import { IconButton } from './button.tsx';

/** Closes the dialog around; null outside of one. */
export const CloseDialog = createContext<(() => void) | null>(null);

type Props = {
  isOpen: boolean;
  onClose: () => void;
  title: string;
  /** One sentence below the title. */
  about?: ReactNode;
  children: ReactNode;
  /** Hides the title, as in the palette. */
  isBare?: boolean;
  /** Hides the title but not the button that closes, as in a sheet whose first row has room for it. */
  isTitleHidden?: boolean;
  /** Replaces the place of the popup, as for a sheet. */
  place?: string;
};

/** Fields to type into. */
const FIELD =
  'input:not([type="hidden"], [type="checkbox"], [type="radio"], [type="file"], [disabled], [readonly]), textarea, select';

/** Its first line has the height of the button that closes, and so the same middle. */
export const DIALOG_TITLE =
  'py-[calc((var(--spacing-control)-1lh)/2)] text-lg font-semibold break-words';

const CENTRE =
  'arrive top-[12vh] left-1/2 max-h-[76vh] w-[min(32rem,calc(100vw-2rem))] -translate-x-1/2 rounded-xl';

function isTyped(popup: HTMLElement | null): boolean {
  const fields = popup?.querySelectorAll<HTMLInputElement | HTMLTextAreaElement>(
    'form :is(input, textarea)',
  );
  return [...(fields ?? [])].some((field) =>
    'checked' in field && /^(checkbox|radio)$/.test(field.type)
      ? field.checked !== field.defaultChecked
      : field.value !== field.defaultValue,
  );
}

export function Dialog(props: Props): ReactNode {
  const { isOpen, onClose, title, about, children, isBare, isTitleHidden, place = CENTRE } = props;
  const head = isTitleHidden
    ? 'absolute top-5 right-3 z-10'
    : 'flex items-start gap-2 py-3 pr-3 pl-5';
  const popup = useRef<HTMLDivElement>(null);
  // Without a field no control has the focus, so that Enter neither closes the dialog nor confirms it unread.
  const firstField = (): HTMLElement | null =>
    popup.current?.querySelector<HTMLElement>(FIELD) ?? popup.current;
  return (
    <Base.Root
      open={isOpen}
      onOpenChange={(open, { reason }) => {
        if (open || isPageCovered()) return;
        // A click beside it loses nothing that was typed.
        if (reason === 'outside-press' && isTyped(popup.current)) return;
        onClose();
      }}
    >
      <Base.Portal>
        <Base.Backdrop className="fixed inset-0 z-40 bg-scrim" />
        <Base.Popup
          ref={popup}
          initialFocus={firstField}
          className={`fixed z-50 overflow-auto bg-raised shadow-dialog outline-none [--page-x:1.25rem] ${place}`}
        >
          <div className={isBare ? 'sr-only' : head}>
            <div className={isTitleHidden ? 'sr-only' : 'min-w-0 grow'}>
              <Base.Title className={DIALOG_TITLE}>{title}</Base.Title>
              {about && <p className="-mt-0.5 text-sm text-muted">{about}</p>}
            </div>
            <Base.Close
              render={
                <IconButton label="Close">
                  <X size={16} aria-hidden />
                </IconButton>
              }
            />
          </div>
          <CloseDialog value={onClose}>{children}</CloseDialog>
        </Base.Popup>
      </Base.Portal>
    </Base.Root>
  );
}
