// A page with the card of one head.

function closeCard() {}  // its button is hidden

card.replaceChildren(...cardParts(data.cards[data.heads[0]]));
